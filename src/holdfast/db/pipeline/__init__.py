"""The commit pipeline: one commit for many durable writes."""
