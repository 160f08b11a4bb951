// Ids that this page makes.

/** newSessionId returns YYYYMMDD_HHMMSS_xxxxxx, local time and six random hex digits. */
export function newSessionId(now = new Date(), random = randomHex(3)) {
  const two = (value) => String(value).padStart(2, '0');
  const day = `${now.getFullYear()}${two(now.getMonth() + 1)}${two(now.getDate())}`;
  return `${day}_${two(now.getHours())}${two(now.getMinutes())}${two(now.getSeconds())}_${random}`;
}

/** newMessageId returns an id for one message; sent again with it, the message is recognised. */
export function newMessageId() {
  return `page_${Date.now().toString(36)}_${randomHex(8)}`;
}

function randomHex(bytes) {
  return Array.from(crypto.getRandomValues(new Uint8Array(bytes)), (byte) => byte.toString(16).padStart(2, '0')).join('');
}
