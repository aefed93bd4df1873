PRAGMA journal_mode = OFF;
CREATE TABLE item (id INTEGER PRIMARY KEY, kind INTEGER, price REAL, name TEXT);
CREATE TABLE sale (item INTEGER, amount INTEGER, day INTEGER);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)
  INSERT INTO item SELECT i, i * 7919 % 97, i % 1000 / 8.0, printf('name %x', i * 2654435761 % 65536) FROM n;
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 330000)
  INSERT INTO sale SELECT i * 48271 % 20000 + 1, i % 11, i % 365 FROM n;
SELECT kind, sum(price * amount), count(*) FROM sale JOIN item ON item.id = sale.item
  GROUP BY kind ORDER BY 2 DESC LIMIT 5;
SELECT count(DISTINCT day), avg(price) FROM sale JOIN item ON item.id = item WHERE name LIKE '%a%';
