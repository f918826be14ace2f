-- SPDX-License-Identifier: MIT
-- No random(): the same rows each time, from a linear congruence.
CREATE TABLE item (id INTEGER PRIMARY KEY, key INTEGER, name TEXT, body TEXT);
WITH RECURSIVE n(i, x) AS (
    SELECT 1, 12345
    UNION ALL
    SELECT i + 1, (x * 1103515245 + 12345) & 2147483647 FROM n WHERE i < 250000
)
INSERT INTO item SELECT i, x % 5000, 'name ' || (x % 977), substr(hex(x) || hex(x * 7) || hex(x * 31), 1, x % 60) FROM n;
SELECT count(*), sum(key), sum(length(body)) FROM item;

CREATE INDEX item_key ON item (key, name);
CREATE INDEX item_body ON item (body);
CREATE TABLE bucket AS SELECT key, count(*) AS n, group_concat(id, ' ') AS ids FROM item GROUP BY key;
SELECT count(*), sum(n), sum(length(ids)), max(length(ids)) FROM bucket;

SELECT name, count(*), min(body), max(body) FROM item GROUP BY name ORDER BY 2 DESC, 1 LIMIT 20;
SELECT a.name, count(*) FROM item a JOIN item b ON a.key = b.key AND a.name = b.name AND a.id < b.id
    GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 20;
SELECT sum(rank * id) FROM (SELECT id, rank() OVER (PARTITION BY key ORDER BY body, id) AS rank FROM item);

BEGIN;
UPDATE item SET body = body || '/' || name || '/' || id WHERE key % 3 = 0;
DELETE FROM item WHERE key % 5 = 1;
SELECT count(*), sum(length(body)) FROM item;
SAVEPOINT half;
DELETE FROM item WHERE key % 2 = 0;
SELECT count(*) FROM item;
ROLLBACK TO half;
COMMIT;
SELECT count(*), sum(length(body)) FROM item;
SELECT substr(group_concat(body, ','), 1, 200), length(group_concat(body, ',')) FROM (SELECT body FROM item ORDER BY body, id);
DROP INDEX item_body;
VACUUM;
PRAGMA integrity_check;
