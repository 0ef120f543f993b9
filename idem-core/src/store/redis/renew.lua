-- Extends a lease, and the life of its record where that would end first.
-- ARGV: owner, lease_ms

local owner, lease = unpack(ARGV)
local r, bytes = read()
if r == false then
  return {'unreadable', bytes}
elseif r == nil then
  return {'gone'}
elseif r.owner ~= owner then
  return {'superseded'}
elseif r.state ~= IN_PROGRESS then
  return {'ended'}
end
local left = left_to_live(r)
local lease_left = math.max(left_of_lease(r, left), tonumber(lease))
r.lease_until = now + lease_left
write(r, math.max(left, lease_left))
return {'renewed', lease_left}
