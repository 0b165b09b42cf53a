"""What a workflow does durably: each operation is found in the record, or done and recorded."""
