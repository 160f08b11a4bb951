-- Marks a run for abortion and logs it.
-- keys: h t e d dx l z
-- args: channel, stamp, owner, profile, run, name, payload
-- include: root log ledger run
local channel = arg()
stamp = arg()
local owner, profile, run, name, payload = arg(), arg(), arg(), arg(), arg()
local function answer(code, state)
  return {code, now, state or '', alive() and 1 or 0, str('nd'), str('ph')}
end
if forbids(owner, profile) then return {'forbidden', now, '', 0, '', ''} end
if not exists() or run == '' then return answer('none') end
if str('run') ~= run then
  local rec = byRun(run)
  if rec and rec.s ~= 'queued' then return answer('ended', rec.s) end
  return answer(str('run') ~= '' and 'ended' or 'none')
end
if num('ab') == 1 then return answer('already') end
set('ab', 1)
entry('abort', run, name, payload)
announce('A')
commit(channel)
return answer('ok')
