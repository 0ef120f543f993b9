-- Gives a claim up.
-- ARGV: owner, how (bound, forget, undo, unknown), keep_ms if unknown

local owner, how, keep = unpack(ARGV)
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
