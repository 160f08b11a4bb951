-- missing adds the rows of a run that the transcript lacks, read from the
-- arguments (role, data), the user row first. Its rows stand behind row number
-- first, if there is one. It returns the ids of all of them.
local function missing(run, qid, first)
  local ids = {}
  if first then
    for _, found in ipairs(call('XRANGE', key.t, first .. '-0', '+')) do
      if found[2][8] == run then ids[#ids + 1] = tonumber(string.match(found[1], '^%d+')) end
    end
  end
  for i = 1, int() do
    local role, data = arg(), arg()
    if not ids[i] then ids[i] = row(role, data, run, i == 1 and qid or '') end
  end
  return ids
end

-- arrived reads an item from the arguments.
local function arrived()
  return {
    qid = arg(), run = arg(), dig = arg(), ex = arg(), cid = arg(), pro = arg(),
    role = arg(), data = arg(), opts = arg(), acc = int(),
  }
end
