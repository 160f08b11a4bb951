-- Removes a waiting item on a user's wish.
-- keys: h t e q i d dx z
-- args: channel, stamp, owner, profile, qid
-- include: root log ledger queue
local channel = arg()
stamp = arg()
local owner, profile, qid = arg(), arg(), arg()
if forbids(owner, profile) then return {'forbidden', now, ''} end
if not exists() or not waits(qid) then
  local rec = exists() and recall('q' .. qid)
  return {'not_queued', now, rec and rec.s or ''}
end
take(qid)
forget(qid)
mark(qid, 's', 'cancelled')
queueEvent()
commit(channel)
return {'cancelled', now, 'cancelled'}
