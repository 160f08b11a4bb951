-- User rows of items, from the queue, else from the transcript.
-- lane: none
-- keys: h t i d
-- args: qids
-- include: root
local found = {}
for _, qid in ipairs(strings()) do
  local rec = call('HGET', key.d, 'q' .. qid)
  rec = rec and cmsgpack.unpack(rec)
  local it = exists() and rec and rec.s == 'queued' and call('HGET', key.i, qid)
  if it then
    it = cmsgpack.unpack(it)
    found[#found + 1] = {qid, it.run, it.role, it.data, 0, it.acc}
  elseif exists() and rec and rec.row then
    local row = call('XRANGE', key.t, rec.row .. '-0', rec.row .. '-0')[1]
    row = row and row[2]
    if row and row[10] == qid then
      found[#found + 1] = {qid, row[8], row[2], row[4], rec.row, tonumber(row[6])}
    end
  end
end
return {'ok', now, found}
