-- trim keeps the newest entries of the log, and all behind limit. Field b of an
-- entry, the tenth of its values, is the log's size up to it.
local function total(o)
  local found = call('XRANGE', key.e, o .. '-0', o .. '-0')
  return found[1] and tonumber(found[1][2][10]) or 0
end

local function trim(limit)
  local head = call('XRANGE', key.e, '-', '+', 'COUNT', 1)[1]
  if not head then return end
  local first = tonumber(string.match(head[1], '^%d+'))
  local last, size = num('s'), num('lb')
  local floor = last - limits.keep
  local lo, hi = first - 1, math.min(last, limit)
  if size - tonumber(head[2][10]) >= limits.keepBytes then
    while lo < hi do
      local mid = math.ceil((lo + hi) / 2)
      if size - total(mid) >= limits.keepBytes then lo = mid else hi = mid - 1 end
    end
    floor = math.max(floor, lo)
  end
  floor = math.min(floor, limit)
  if floor >= first then call('XTRIM', key.e, 'MINID', (floor + 1) .. '-0') end
end
