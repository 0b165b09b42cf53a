-- fragment: sequence_column
sequence INTEGER PRIMARY KEY AUTOINCREMENT
