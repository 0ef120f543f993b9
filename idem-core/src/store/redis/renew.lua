-- Extends a lease, and the life of its record where that would end first.
-- ARGV: owner, lease_ms

local owner, lease = unpack(ARGV)
local r, why_not = held_by(owner)
if not r then
  return why_not
end
local left = left_to_live(r)
local lease_left = math.max(left_of_lease(r, left), tonumber(lease))
r.lease_until = now + lease_left
write(r, math.max(left, lease_left))
return {'renewed', lease_left}
