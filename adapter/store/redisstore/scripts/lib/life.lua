-- How sessions begin and end.

-- create makes a new incarnation; of what was there before only the ledger and
-- the fence stay.
local function create(ep, owner, profile, attrs)
  local fence = num('f')
  local old = root
  root = {}
  for field in pairs(old) do dropped[field] = true end
  set('v', limits.version)
  set('ep', ep)
  set('own', owner)
  set('pro', profile)
  for field, value in pairs(attrs) do set(field, value) end
  set('tsrc', 'auto')
  set('ct', now)
  set('ut', now)
  set('mv', 1)
  set('s', 0)
  set('z', '0')
  set('g', 1)
  set('f', fence)
  wasBusy = false
  write('DEL', key.t, key.e, key.q, key.i, key.k, key.l, key.n, key.a, key.z)
end
local function attributes()
  return {src = arg(), model = arg(), prov = arg(), title = arg(), prev = arg()}
end

-- purge leaves a tombstone: the ledger, so that a message sent again is
-- recognised, and for a moment the log, so that watchers get the ending.
local function purge()
  local kept = {v = 1, ep = 1, own = 1, pro = 1, s = 1, z = 1, lb = 1, f = 1, lr = 1, lo = 1, ltok = 1, er = 1}
  for field in pairs(root) do
    if not kept[field] then
      root[field], changed[field], dropped[field] = nil, nil, true
    end
  end
  set('del', '2')
  write('DEL', key.t, key.q, key.i, key.k, key.l, key.n, key.a, key.z)
  announce('D')
end
