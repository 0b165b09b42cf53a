-- fragment: few
-- PostgreSQL takes the rows of a batch for 10 or 100, and would walk through all keys of a table that was small when the
-- plan was made, long after it has grown. Of a range it believes that it leaves one row: each is then found by its key.
AND r.n BETWEEN 0 AND 2147483647
