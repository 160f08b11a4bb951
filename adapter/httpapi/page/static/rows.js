// Stored message rows (the `messages` of `resumed`) as items of the view model.

const endNotes = { aborted: 'Stopped', error: 'The run failed at this point' };

/** textOf returns what a stored content shows: plain text, or the text and file names of content blocks. */
export function textOf(content) {
  if (typeof content !== 'string') return content == null ? '' : JSON.stringify(content);
  if (!content.startsWith('[{')) return content;
  let blocks;
  try {
    blocks = JSON.parse(content);
  } catch {
    return content;
  }
  const known = blocks.every((block) => ['text', 'image', 'file'].includes(block?.type));
  if (!known) return content;
  return blocks.map((block) => (block.type === 'text' ? block.text : `[${block.name || block.type}]`)).join('\n');
}

/** previewOf returns the first line of a tool's most telling argument. */
export function previewOf(args) {
  let value;
  try {
    value = JSON.parse(args);
  } catch {
    return '';
  }
  if (value === null || typeof value !== 'object') return '';
  const keys = ['command', 'path', 'file_path', 'query', 'url', 'pattern', 'name'];
  const key = keys.find((name) => typeof value[name] === 'string') || Object.keys(value)[0];
  if (key === undefined) return '';
  const text = typeof value[key] === 'string' ? value[key] : JSON.stringify(value[key]);
  return text.split('\n')[0].slice(0, 120);
}

/**
 * itemsOf turns rows, oldest first, into items. Rows of one session have unique ids, so the keys are stable
 * across a reload. A tool call without a result is still running while the session works, else stopped.
 */
export function itemsOf(rows, working = false) {
  const items = [];
  const tools = new Map();
  for (const row of rows) {
    const key = `row-${row.id}`;
    if (row.role === 'tool') {
      addResult(items, tools, row, key);
      continue;
    }
    if (row.reasoning) items.push({ key: `${key}-reasoning`, kind: 'reasoning', text: row.reasoning });
    const text = textOf(row.content);
    if (text) items.push({ key: keyOf(row), kind: kindOf(row.role), text, timestamp: row.timestamp });
    const end = endNotes[row.finish_reason];
    if (end) items.push({ key: `${key}-end`, kind: 'notice', text: end });
    for (const [i, call] of (row.tool_calls || []).entries()) {
      tools.set(call.id, items.length);
      items.push({ ...toolItem(call.id, call.function?.name || '', call.function?.arguments || ''), key: `${key}-tool-${i}` });
    }
  }
  const last = working ? lastUserIndex(items) : items.length;
  return items.map((item, i) => (item.state === 'running' && i < last ? { ...item, state: 'stopped' } : item));
}

/**
 * markUnanswered says where a run left nothing behind: it failed, was stopped before its first word, or was lost
 * with the server. The transcript keeps only the message then.
 */
export function markUnanswered(items, working) {
  return items.flatMap((item, i) => {
    const next = items[i + 1];
    const unanswered = item.kind === 'user' && (next ? next.kind === 'user' : !working);
    return unanswered ? [item, { key: `${item.key}-unanswered`, kind: 'notice', text: 'This message was not answered' }] : [item];
  });
}

/** toolItem is a tool card at its start; the caller adds the key. */
export function toolItem(id, name, args, preview) {
  return { kind: 'tool', id, name, arguments: args, preview: preview || previewOf(args), state: 'running' };
}

/** lastUserIndex returns where the latest user message stands, or -1. */
export function lastUserIndex(items) {
  return items.findLastIndex((item) => item.kind === 'user');
}

/** keyOf gives an own message the key it had before it was stored. */
function keyOf(row) {
  return row.queue_id ? `user-${row.queue_id}` : `row-${row.id}`;
}

function kindOf(role) {
  return role === 'user' ? 'user' : role === 'command' ? 'notice' : 'assistant';
}

function addResult(items, tools, row, key) {
  const output = textOf(row.content);
  const at = tools.get(row.tool_call_id);
  const failed = output.startsWith('Error');
  const item = at === undefined ? { ...toolItem(row.tool_call_id || key, row.tool_name || '', ''), key } : items[at];
  const done = { ...item, output, state: failed ? 'error' : 'done' };
  if (at === undefined) items.push(done);
  else items[at] = done;
}
