-- Gives a claim up.
-- ARGV: owner, how (bound, forget, undo, unknown), keep_ms if unknown

local owner, how, keep = unpack(ARGV)
local r, why_not = held_by(owner)
if not r then
  return why_not
end
local left = left_to_live(r)
r.lease_until = 0
if how == 'forget' or (how == 'undo' and r.attempts == 1) then
  redis.call('DEL', key)
elseif how == 'unknown' then
  r.state, r.life = UNKNOWN, keep
  write(r, keep)
else
  r.state = RELEASED
  write(r, left)
end
return {'done'}
