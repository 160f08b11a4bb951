-- The record of a node.
-- keys: n
return {'ok', now, call('HGETALL', key.n)}
