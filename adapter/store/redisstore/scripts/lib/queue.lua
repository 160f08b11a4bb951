-- The queue of accepted items, and the active run's item beside it.
local waiting
local function queue()
  waiting = waiting or call('LRANGE', key.q, 0, -1)
  return waiting
end
local function item(qid)
  local v = call('HGET', key.i, qid)
  return v and cmsgpack.unpack(v)
end
local function size(it)
  return #it.data + #it.opts
end
local function fields(it)
  return {it.qid, it.run, it.dig, it.ex, it.cid, it.pro, it.role, it.data, it.opts, it.acc}
end
local function keep(it)
  write('HSET', key.i, it.qid, cmsgpack.pack(it))
end

local function queueEntry(dequeued)
  local ids = {}
  for i, qid in ipairs(queue()) do ids[i] = #qid .. ':' .. qid end
  entry('queue', '', '', '', 'ql', #ids, 'ids', table.concat(ids), 'dq', dequeued)
end

-- Between a dequeue and the start of that run no other queue entry may stand; it
-- is owed instead.
local function queueEvent()
  if num('dq') == 1 then set('qd', 1) else queueEntry('') end
end
local function closeWindow()
  set('dq', 0)
  if num('qd') == 1 then
    set('qd', 0)
    queueEntry('')
  end
end

local function counted(bytes)
  set('ql', #waiting)
  set('qb', bytes)
end
local function push(it)
  local q = queue()
  q[#q + 1] = it.qid
  write('RPUSH', key.q, it.qid)
  keep(it)
  counted(num('qb') + size(it))
end
-- take removes an item from the order; forget drops its content too.
local function take(qid)
  local it = item(qid)
  for i, id in ipairs(queue()) do
    if id == qid then
      table.remove(waiting, i)
      break
    end
  end
  write('LREM', key.q, 1, qid)
  counted(num('qb') - size(it))
  return it
end
local function forget(qid)
  write('HDEL', key.i, qid)
end
local function waits(qid)
  for _, id in ipairs(queue()) do
    if id == qid then return true end
  end
  return false
end
local function cancelAll()
  if #queue() == 0 then return end
  for _, qid in ipairs(waiting) do
    mark(qid, 's', 'cancelled')
    forget(qid)
  end
  waiting = {}
  write('DEL', key.q)
  counted(0)
  queueEvent()
end
