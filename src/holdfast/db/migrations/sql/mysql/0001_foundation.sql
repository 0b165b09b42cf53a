-- Facts about the tables themselves. The row schema_version repeats the number in holdfast_migrations.
CREATE TABLE IF NOT EXISTS @holdfast_meta (
    "key" VARCHAR(255) NOT NULL PRIMARY KEY,
    "value" LONGTEXT
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE {key_collation};
