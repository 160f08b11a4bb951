-- Ends the active run and, in the same step, begins the next queued item.
-- keys: h t e q i d dx k l n a z
-- args: channel, stamp, token, run, sequence, ttl, outcome, node, known process, 1 to pop, executor classes,
--       usage (input, output, cache read, cache write, reasoning, context),
--       events (kind, name, payload), end name, end payload, rows (role, data)
-- include: root log trim rows ledger queue run owner life
local channel = arg()
stamp = arg()
local token, run, seq, ttl, outcome, node, process = arg(), arg(), int(), int(), arg(), arg(), arg()
local pops, classes = int() == 1, {}
for _, class in ipairs(strings()) do classes[class] = true end

-- answer completes an owner's reply by the item that has begun.
local function answer(r, code)
  local out = reply(code, r.bo, r.bz, r.lo, r.lz, r.at, r.ids, '')
  out[8], out[9], out[10], out[11] = r.ab, r.mv, r.ql, r.seq
  local it = code == 'next' and item(str('qid'))
  out[14], out[15], out[16] = it and fields(it) or {}, num('ur'), num('bt')
  out[17], out[18] = str('own'), str('pro')
  return out
end

if run ~= '' and token ~= '' and str('lr') == run and str('ltok') == token and str('er') ~= '' then
  local r = cmsgpack.unpack(str('er'))
  return answer(r, r.code)
end
local no = refusal(token, run)
if no then return refused(no, run) end
if seq ~= num('as') + 1 then return refused('back', run) end
if num('ab') == 1 and outcome ~= 'aborted' then return refused('aborting', run) end
if num('ab') == 0 and outcome == 'aborted' then return refused('bad', run) end
if outcome ~= 'completed' and outcome ~= 'failed' and outcome ~= 'aborted' then return refused('bad', run) end
if pops and replaced(process) then return otherProcess() end

-- Input and context are of the latest run that reported them, the rest are sums.
for _, field in ipairs({'ui', 'uo', 'ucr', 'ucw', 'ure', 'uc'}) do
  local used = int()
  if used > 0 then set(field, (field == 'ui' or field == 'uc') and used or num(field) + used) end
end
local bo, bz = position()
events(run)
local name, payload = arg(), arg()
entry('end', run, name, payload, 'ql', num('ql'))
closeWindow()
local ids = rows(run)
local ended = str('qid')
mark(ended, 's', outcome)
endRun(outcome)

local code = 'waiting'
local head = num('ql') > 0 and item(queue()[1])
if str('del') == '1' then
  code = 'purged'
  purge()
elseif not head then
  code = 'idle'
  vacate()
elseif pops and classes[head.ex] then
  code = 'next'
  set('nd', node)
  set('as', seq)
  lease(token, ttl)
  pop()
else
  vacate()
end
local r = result(bo, bz, ids)
r.code, r.ab, r.mv, r.ql, r.seq = code, 0, num('mv'), num('ql'), seq
if code == 'next' then set('ar', cmsgpack.pack(result(bo, bz, ids))) end
set('ltok', token)
set('er', cmsgpack.pack(r))
commit(channel)
if code ~= 'purged' then trim(bo) end
return answer(r, code)
