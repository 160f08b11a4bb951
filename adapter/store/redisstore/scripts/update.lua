-- Changes attributes of a session if the expectations hold.
-- keys: h t e d dx l z
-- args: channel, stamp, owner, profile, not after, 1 to expect an automatic title, metadata version (0: any),
--       attributes (field, value), events (name, payload)
-- include: root log trim ledger run
local channel = arg()
stamp = arg()
local owner, profile, notAfter, auto, version = arg(), arg(), int(), int() == 1, int()
local function answer(code)
  return {code, now, alive() and 1 or 0, call('HGETALL', key.h)}
end
if not exists() then return {'none', now, 0, {}} end
if forbids(owner, profile) then return {'forbidden', now, 0, {}} end
if late(notAfter) then return answer('expired') end
if auto and str('tsrc') == 'manual' then return answer('changed') end
if version ~= 0 and version ~= num('mv') then return answer('changed') end
local limit = num('s')
for _ = 1, int() do
  local field, value = arg(), arg()
  set(field, value)
end
set('mv', num('mv') + 1)
notes()
commit(channel)
if str('run') == '' then trim(limit) end
return answer('ok')
