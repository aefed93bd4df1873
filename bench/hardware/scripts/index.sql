PRAGMA journal_mode = OFF;
CREATE TABLE t (a INTEGER, b TEXT, c REAL);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 330000)
  INSERT INTO t SELECT i * 2654435761 % 1000003, printf('%d-%d', i % 977, i), i / 3.0 FROM n;
CREATE INDEX by_a ON t (a);
CREATE INDEX by_b ON t (b);
SELECT count(*) FROM t x JOIN t y ON y.a = x.a + 1;
SELECT max(b), min(c) FROM t WHERE b BETWEEN '3' AND '5' AND a > 1000;
