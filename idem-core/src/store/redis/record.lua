-- What all scripts share: the layout of a record, as in layout.rs, and the server's clock.
-- A script reads the record under KEYS[1] once and writes it once, with its expiry.

local HEAD = '>BBc16I8I4I4I8I8BH'
local HEAD_LEN = 53
local MAX_META_LEN = 512
local RELEASED, IN_PROGRESS, COMPLETED, UNKNOWN = 0, 1, 2, 3
-- A number is a double here, and exact up to this one.
local LARGEST = 9007199254740991

local key = KEYS[1]
local time = redis.call('TIME')
local now_us = time[1] * 1000000 + time[2]
local now = math.floor(now_us / 1000)

-- `tostring` would write a large number with an exponent.
local function digits(number)
  return string.format('%.0f', number)
end

-- The record; nil where there is none; false and its first bytes if it cannot be read.
local function read()
  local bytes = redis.call('GETRANGE', key, 0, HEAD_LEN + 255 + MAX_META_LEN - 1)
  if #bytes == 0 and redis.call('EXISTS', key) == 0 then
    return nil
  end
  if #bytes < HEAD_LEN or string.byte(bytes) ~= 1 then
    return false, bytes
  end
  local r = {}
  local version, fingerprint_len, meta_len, at
  version, r.state, r.owner, r.fence, r.attempts, r.lease, r.life, r.lease_until,
    fingerprint_len, meta_len, at = struct.unpack(HEAD, bytes)
  local response_at = HEAD_LEN + fingerprint_len + meta_len
  if r.state > UNKNOWN or meta_len > MAX_META_LEN or #bytes < response_at
    or math.max(r.fence, r.life, r.lease_until) > LARGEST then
    return false, bytes
  end
  r.fingerprint = string.sub(bytes, at, at + fingerprint_len - 1)
  r.meta = string.sub(bytes, at + fingerprint_len, response_at)
  r.response_at = response_at
  return r
end

-- The record, if this owner holds it in progress; else nil, and the answer that says why not.
local function held_by(owner)
  local r, bytes = read()
  if r == false then
    return nil, {'unreadable', bytes}
  elseif r == nil then
    return nil, {'gone'}
  elseif r.owner ~= owner then
    return nil, {'superseded'}
  elseif r.state ~= IN_PROGRESS then
    return nil, {'ended'}
  end
  return r
end

-- How long the record lives, in ms. One whose expiry somebody took away gets it back, and so does
-- one whose lease counts from the claim and whose expiry somebody put off.
local function left_to_live(r)
  local left = redis.call('PTTL', key)
  local counts_from_claim = r.state == IN_PROGRESS and r.lease_until == 0
  if left < 0 or (counts_from_claim and left > r.life) then
    if r.state == COMPLETED then
      left = r.lease_until + r.life - now
    else
      left = math.max(r.life, r.lease_until - now)
    end
    left = math.max(1, left)
    redis.call('PEXPIRE', key, digits(left))
  end
  return math.max(1, left)
end

-- How long the lease of an attempt in progress lasts, in ms; from here on the record says until when.
local function left_of_lease(r, left)
  if r.lease_until == 0 then
    r.lease_until = now + left - r.life + r.lease
  end
  return math.max(0, r.lease_until - now)
end

-- The old value stays until the new one is accepted.
local function write(r, left, response)
  local head = struct.pack(HEAD, 1, r.state, r.owner, r.fence, r.attempts, r.lease, r.life,
    r.lease_until, #r.fingerprint, #r.meta)
  redis.call('SET', key, head .. r.fingerprint .. r.meta .. (response or ''), 'PX', digits(left))
end
