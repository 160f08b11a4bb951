// Starts the page: signing in, the connection, and the wiring of list, chat and composer.

import { Api } from './api.js';
import { Chats } from './chats.js';
import { openDialog } from './dialogs.js';
import { newSessionId } from './ids.js';
import { byId, el } from './render.js';
import { Sidebar, titleOf } from './sidebar.js';
import { ChatSocket } from './socket.js';
import { ChatView } from './view.js';

// One origin may have several mounts, each with its own rules.
const TOKEN_KEY = `hermes-edge.token:${new URL('./', document.baseURI).pathname}`;
const LIST_POLL_MS = 30_000;
const BOOT_RETRY_MS = 3_000;
const SPOKEN_CHARACTERS = 400;
const HIDDEN_DRAW_MS = 250;

let token = takeToken();
let drawTimer = 0;
const drafts = new Map();

const api = new Api(new URL('./', document.baseURI), () => token);
const sidebar = new Sidebar(api, { open: (row) => openChat(row.id, row.profile), changed: listLoaded, failed: apiFailed });
const view = new ChatView({ cancelQueued: (id) => chats.cancelQueued(id), edit: editAgain });
const socket = new ChatSocket(new URL('../socket.io/', document.baseURI), '/chat-run', {
  onConnect: (recovered) => chats.connected(recovered),
  onEvent: (name, payload) => chats.event(name, payload),
  onRefused: refused,
  onState: drawConnection,
});
const chats = new Chats((name, payload) => socket.emit(name, payload), {
  changed: (id) => id === chats.current && requestDraw(),
  listChanged: () => sidebar.refreshSoon(),
  ended: announceEnd,
});

/* Signing in. The token comes in the fragment, which no server and no log ever sees. */

function takeToken() {
  const given = new URLSearchParams(location.hash.slice(1)).get('token');
  if (given) {
    history.replaceState(null, '', location.pathname + location.search);
    localStorage.setItem(TOKEN_KEY, given);
  }
  return given || localStorage.getItem(TOKEN_KEY) || '';
}

async function signIn() {
  try {
    const me = await api.me();
    if (token) localStorage.setItem(TOKEN_KEY, token);
    showApp(me);
  } catch (error) {
    if (error.status === 401 || error.status === 403) return showSignIn(token ? 'This access token is not accepted.' : '');
    byId('boot').hidden = false;
    byId('boot').textContent = `The server does not answer (${error.message}). Trying again…`;
    setTimeout(signIn, BOOT_RETRY_MS);
  }
}

function showSignIn(problem) {
  socket.close();
  chats.clear();
  sidebar.clear();
  view.reset();
  show('sign-in-screen');
  byId('sign-in-error').textContent = problem;
  byId('sign-in-error').hidden = !problem;
  byId('token-input').focus();
}

function showApp(me) {
  show('app');
  byId('user').textContent = me.user?.name || '';
  byId('sign-out').hidden = !token;
  const profiles = me.profiles?.length ? me.profiles : ['default'];
  byId('profile').replaceChildren(...profiles.map((name) => el('option', { value: name }, name)));
  byId('profile').hidden = profiles.length < 2;
  socket.connect(token);
  sidebar.load();
  openFromAddress();
}

function show(id) {
  for (const name of ['boot', 'sign-in-screen', 'app']) byId(name).hidden = name !== id;
}

function signOut() {
  token = '';
  localStorage.removeItem(TOKEN_KEY);
  drafts.clear();
  history.replaceState(null, '', location.pathname + location.search);
  showSignIn('');
}

function apiFailed(error) {
  if (error.status === 401) showSignIn('Please sign in again.');
  else if (socket.connected) showBanner('problem', `The server refused a request: ${error.message}`);
}

function listLoaded() {
  if (byId('status').dataset.state === 'problem') showBanner('connected', 'Connected');
  drawSidebar();
}

/* Connection. */

function refused(message) {
  api.me().then(
    () => showBanner('refused', `The server refused the connection: ${message}`, true),
    (error) => (error.status === 401 ? showSignIn('This access token is not accepted.') : showBanner('refused', message, true)),
  );
}

function drawConnection({ phase, delay, reason }) {
  byId('connection').dataset.state = phase;
  if (phase === 'waiting') showBanner('waiting', `Connection lost (${reason}). Next try in ${Math.ceil(delay / 1000)} s.`, true);
  else if (phase === 'connected') showBanner('connected', 'Connected');
  else if (byId('status').dataset.state !== 'waiting') showBanner(phase, phase === 'connecting' ? 'Connecting…' : 'Not connected');
}

/** showBanner says what is wrong above the transcript; while all is well it stays out of sight. */
function showBanner(state, text, retry = false) {
  byId('status').dataset.state = state;
  byId('status').textContent = text;
  byId('banner').hidden = state === 'connected' || state === 'connecting';
  byId('retry').hidden = !retry;
}

function retry() {
  if (byId('status').dataset.state === 'refused') socket.connect(token);
  else socket.retryNow();
}

/* Chats. The open chat is in the fragment, so a reload and the back button find it. */

function openFromAddress() {
  const [, id, profile] = /^#\/([\w.:-]{1,128})(?:\?profile=([\w-]+))?$/.exec(location.hash) || [];
  if (id) openChat(id, profile);
  else newChat();
}

function addressChanged() {
  if (location.hash.startsWith('#token=')) {
    token = takeToken();
    signIn();
  } else if (!byId('app').hidden) openFromAddress();
}

function openChat(id, profile) {
  keepDraft();
  if (chats.current !== id) view.reset();
  const usedProfile = profile || sidebar.row(id)?.profile || byId('profile').value || 'default';
  const address = `#/${id}${usedProfile === 'default' ? '' : `?profile=${usedProfile}`}`;
  if (!location.hash) history.replaceState(null, '', address);
  else if (location.hash !== address) history.pushState(null, '', address);
  chats.open(id, usedProfile);
  byId('composer').value = drafts.get(id) || '';
  fitComposer();
  drawSidebar();
  toggleMenu(false);
}

function newChat() {
  openChat(newSessionId(), byId('profile').value);
  byId('composer').focus();
}

function keepDraft() {
  if (!chats.current) return;
  const text = byId('composer').value;
  if (text) drafts.set(chats.current, text);
  else drafts.delete(chats.current);
}

async function loadEarlier() {
  const { id, oldest } = chats.state;
  byId('earlier').disabled = true;
  try {
    const page = await api.messages(id, oldest);
    chats.addOlder(id, page.messages, Boolean(page.has_more));
  } catch (error) {
    apiFailed(error);
  } finally {
    byId('earlier').disabled = false;
  }
}

function renameChat() {
  const id = chats.current;
  byId('rename-input').value = titleText();
  openDialog('rename', async () => {
    await api.rename(id, byId('rename-input').value.trim());
    await sidebar.load();
  });
  byId('rename-input').select();
}

function deleteChat() {
  const id = chats.current;
  openDialog('delete', async () => {
    await api.remove(id);
    chats.forget(id);
    drafts.delete(id);
    byId('composer').value = '';
    await sidebar.load();
    newChat();
  });
}

/* Composer. */

function send(event) {
  event.preventDefault();
  const text = byId('composer').value.trim();
  if (!text || !chats.current) return;
  byId('composer').value = '';
  fitComposer();
  view.follow = true;
  chats.send(text);
}

function editAgain(text) {
  byId('composer').value = text;
  fitComposer();
  byId('composer').focus();
}

function composerKey(event) {
  const touch = matchMedia('(pointer: coarse)').matches;
  if (event.key !== 'Enter' || event.shiftKey || event.isComposing || touch) return;
  send(event);
}

function fitComposer() {
  const composer = byId('composer');
  composer.style.height = 'auto';
  composer.style.height = `${composer.scrollHeight}px`;
}

/* Drawing, once a frame at most. A window in the background has no frames, so a timer stands in. */

function requestDraw() {
  if (drawTimer) return;
  const frame = requestAnimationFrame(draw);
  drawTimer = setTimeout(draw, HIDDEN_DRAW_MS);
  function draw() {
    cancelAnimationFrame(frame);
    clearTimeout(drawTimer);
    drawTimer = 0;
    if (!chats.state) return;
    view.draw(chats.state);
    drawHeader();
  }
}

function drawSidebar() {
  sidebar.draw(chats.current, (id) => chats.working(id));
  drawHeader();
}

function drawHeader() {
  const title = titleText();
  const stored = Boolean(sidebar.row(chats.current)) || chats.state?.items.length > 0;
  byId('title').textContent = title;
  byId('rename').hidden = !stored;
  byId('delete').hidden = !stored;
  document.title = `${chats.state?.working ? '● ' : ''}${title} – Hermes Edge`;
}

function titleText() {
  const row = sidebar.row(chats.current);
  if (row) return titleOf(row);
  const first = chats.state?.items.find((item) => item.kind === 'user');
  return first ? first.text.split('\n')[0].slice(0, 64) : 'New chat';
}

function announceEnd(id, name, payload) {
  if (id !== chats.current) return;
  const answer = chats.state.items.findLast((item) => item.kind === 'assistant');
  const texts = { 'run.failed': `Failed: ${payload.error}`, 'abort.completed': 'Stopped' };
  byId('announcer').textContent = texts[name] || answer?.text.slice(0, SPOKEN_CHARACTERS) || 'Finished';
}

function toggleMenu(open) {
  byId('sidebar').dataset.open = String(open);
  byId('backdrop').hidden = !open;
  if (open) byId('search').focus();
}

/* Wiring. */

const clicks = {
  'new-chat': newChat,
  'open-menu': () => toggleMenu(true),
  'close-menu': () => toggleMenu(false),
  backdrop: () => toggleMenu(false),
  'sign-out': signOut,
  rename: renameChat,
  delete: deleteChat,
  earlier: loadEarlier,
  stop: () => chats.stop(),
  retry,
};
for (const [id, action] of Object.entries(clicks)) byId(id).addEventListener('click', action);

byId('sign-in-form').addEventListener('submit', (event) => {
  event.preventDefault();
  token = byId('token-input').value.trim();
  byId('token-input').value = '';
  signIn();
});
byId('compose').addEventListener('submit', send);
byId('composer').addEventListener('keydown', composerKey);
byId('composer').addEventListener('input', fitComposer);
addEventListener('popstate', addressChanged);
addEventListener('keydown', (event) => event.key === 'Escape' && toggleMenu(false));
addEventListener('storage', (event) => event.key === TOKEN_KEY && !event.newValue && token && signOut());
addEventListener('offline', () => socket.interrupt('offline'));
addEventListener('online', () => socket.retryNow());
document.addEventListener('visibilitychange', () => {
  if (document.hidden) return;
  socket.retryNow();
  if (!byId('app').hidden) sidebar.refreshSoon();
});
setInterval(() => !document.hidden && !byId('app').hidden && sidebar.refreshSoon(), LIST_POLL_MS);

signIn();
