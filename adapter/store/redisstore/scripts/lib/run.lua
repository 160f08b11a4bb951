-- The active run and its tenure.
local function alive()
  return str('tok') ~= '' and call('GET', key.l) == str('tok')
end
local function lease(token, ttl)
  write('SET', key.l, token, 'PX', math.max(1, ttl))
end
local function grant(token, node, ttl)
  set('f', num('f') + 1)
  set('tok', token)
  set('nd', node)
  set('as', 0)
  set('ar', '')
  set('tk', '')
  lease(token, ttl)
end
local function vacate()
  set('tok', '')
  set('nd', '')
  set('as', 0)
  set('ar', '')
  set('tk', '')
  write('DEL', key.l)
end

-- generation names the server process: a run that has not been sent may be run
-- again only while the process that knows so has not lost anything.
local function generation()
  local info = redis.pcall('INFO', 'server')
  return type(info) == 'string' and string.match(info, 'run_id:(%x+)') or ''
end

-- replaced reports whether another process serves than the one that the node knew
-- when it decided to call. What was decided then must not be begun here: owners may
-- be about to bring back what this process lacks. Where nobody can tell it does not
-- count.
local function replaced(known)
  if known == '' then return false end
  local serves = generation()
  return serves ~= '' and serves ~= known
end
local function otherProcess()
  return redis.error_reply('REPLACED another process serves than the caller knew')
end

-- begin makes an item the active run and returns the id of its user row.
local function begin(it, dequeued)
  set('run', it.run)
  set('qid', it.qid)
  set('ex', it.ex)
  set('ph', 'starting')
  set('gen', generation())
  set('att', 0)
  set('ab', 0)
  set('rid', '')
  set('up', '')
  set('rj', 1)
  set('kc', num('s'))
  set('ut', now)
  set('bt', now)
  write('DEL', key.k)
  local id = row(it.role, it.data, it.run, it.qid)
  set('ur', id)
  if dequeued then
    queueEntry(it.qid)
    set('dq', 1)
    local rec = recall('q' .. it.qid)
    rec.s, rec.row = 'active', id
    save('q' .. it.qid, rec)
  end
  entry('peer', it.run, '', it.data, 'c', it.cid, 'q', it.qid, 'row', id)
  return id
end
local function pop()
  local it = take(queue()[1])
  begin(it, true)
  return it
end

local function endRun(outcome)
  set('lr', str('run'))
  set('lo', outcome)
  forget(str('qid'))
  for _, field in ipairs({'run', 'qid', 'ph', 'gen', 'ex', 'rid', 'up', 'ar'}) do set(field, '') end
  for _, field in ipairs({'att', 'ab', 'rj', 'ur', 'bt', 'dq'}) do set(field, 0) end
  set('kc', num('s'))
  set('ut', now)
  write('DEL', key.k, key.n, key.a)
end
