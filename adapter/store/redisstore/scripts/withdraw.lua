-- Makes sure that an attempt of an item never runs.
-- keys: h t e q i d dx k l n a z
-- args: channel, stamp, qid, run, known process
-- include: root log rows ledger queue run
local channel = arg()
stamp = arg()
local qid, run, process = arg(), arg(), arg()
local rec = recall('q' .. qid)
local mine = rec and rec.run == run
local function answer(code)
  return {code, now, rec and rec.s or '', str('tok'), num('as'), str('ph')}
end

if mine and (rec.ack == 1 or (rec.s ~= 'queued' and rec.s ~= 'active')) then return answer('kept') end
if mine and rec.s == 'active' then return answer('active') end
local code = (rec and not mine) and 'kept' or 'done'
if call('HEXISTS', key.d, 'w' .. run) == 1 then return answer(code) end
if replaced(process) then return otherProcess() end
enter('w' .. run, {})
if mine then
  write('HDEL', key.d, 'q' .. qid, 'r' .. run)
  write('LREM', key.dx, -1, 'q' .. qid)
  take(qid)
  forget(qid)
  queueEvent()
end
if exists() then
  set('v', limits.version)
  commit(channel)
else
  for _, w in ipairs(writes) do call(unpack(w)) end
  for _, k in ipairs({key.d, key.dx}) do call('PEXPIREAT', k, now + limits.tombstone) end
end
return answer(code)
