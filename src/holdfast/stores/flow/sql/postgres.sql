-- fragment: sequence_column
sequence BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY
