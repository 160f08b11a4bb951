-- Removes the transcript of an idle session.
-- keys: h t e d dx z
-- args: channel, owner, profile, operation id, not after
-- include: root ledger
local channel, owner, profile, op, notAfter = arg(), arg(), arg(), arg(), int()
if not exists() then return {'none', now} end
if forbids(owner, profile) then return {'forbidden', now} end
local known = op ~= '' and recall('o' .. op)
if known then return {known.c, now} end
if late(notAfter) then return {'expired', now} end
if busy() then return {'busy', now} end
set('g', num('g') + 1)
for _, field in ipairs({'msgs', 'tools', 'ui', 'uo', 'ucr', 'ucw', 'ure', 'uc'}) do set(field, 0) end
set('ut', now)
write('DEL', key.t, key.z)
if op ~= '' then enter('o' .. op, {c = 'ok'}) end
commit(channel)
return {'ok', now}
