"""MariaDB and MySQL: their sessions."""
