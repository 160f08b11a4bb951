-- The ledger: what became of items (q<qid>), withdrawn attempts (w<run>) and
-- operations (o<id>); r<run> names the item that a run key belongs to.
local function recall(k)
  local v = call('HGET', key.d, k)
  return v and cmsgpack.unpack(v)
end
local function save(k, rec)
  write('HSET', key.d, k, cmsgpack.pack(rec))
end
local function mark(qid, field, value)
  local rec = recall('q' .. qid)
  if rec then
    rec[field] = value
    save('q' .. qid, rec)
  end
end
local function byRun(run)
  local qid = call('HGET', key.d, 'r' .. run)
  return qid and recall('q' .. qid)
end

-- prune makes room for one record: the oldest that will not change any more.
-- Those that may change are the queue and the active run, so few are looked at.
local function prune()
  if call('LLEN', key.dx) < limits.ledger then return end
  for _, k in ipairs(call('LRANGE', key.dx, 0, limits.items + 1)) do
    local rec = recall(k) or {}
    if string.sub(k, 1, 1) ~= 'q' or (rec.s ~= 'queued' and rec.s ~= 'active') then
      write('LREM', key.dx, 1, k)
      write('HDEL', key.d, k, 'r' .. (rec.run or ''))
      return
    end
  end
end
local function enter(k, rec)
  prune()
  save(k, rec)
  write('RPUSH', key.dx, k)
  if rec.run then write('HSET', key.d, 'r' .. rec.run, string.sub(k, 2)) end
end
