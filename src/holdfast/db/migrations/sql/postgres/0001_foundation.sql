-- Facts about the tables themselves. The row schema_version repeats the number in holdfast_migrations.
CREATE TABLE @holdfast_meta (
    "key" TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    "value" TEXT
);
