// The page as a user meets it: signing in, chatting, stopping, coming back.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { ALICE, messages, say, screenshot, shows, suite } from './lib/browser.js';

const use = suite();

test('sign in by the link of the log: the token leaves the address', async () => {
  const page = await use.open();
  assert.ok(!page.url().includes('token'), page.url());
  assert.equal(await page.getByTestId('user').innerText(), 'alice');
  await page.reload();
  await page.getByTestId('composer').waitFor();
  assert.equal(await page.getByTestId('sign-in').isVisible(), false, 'it is remembered');
  await page.getByTestId('sign-out').click();
  await page.getByTestId('token-input').waitFor();
  await page.reload();
  await page.getByTestId('token-input').waitFor();
  // Without a token the question who one is was refused, and browsers report every refusal.
  use.faults.splice(0);
});

test('sign in by the form; a wrong token shows an error first (CR-6)', async () => {
  const page = await (await use.context()).newPage();
  await page.goto(`${use.stack.url}/chat-run/`);
  await page.getByTestId('token-input').fill('wrong-token-0123456789');
  await page.getByTestId('sign-in').click();
  await page.getByTestId('sign-in-error').waitFor();
  assert.match(await page.getByTestId('sign-in-error').innerText(), /token/);
  await screenshot(page, 'sign-in-error');
  await page.getByTestId('token-input').fill(ALICE);
  await page.getByTestId('token-input').press('Enter');
  await page.getByTestId('composer').waitFor();
  await say(page, 'hello');
  await shows(page, ['user', 'hello'], ['assistant', 'echo: hello']);
  const refused = use.faults.splice(0);
  assert.ok(refused.every((text) => text.includes('401')), refused.join('\n'));
});

test('an answer streams, and is safe Markdown', async () => {
  const page = await use.open();
  await say(page, '[[hold]]');
  const answer = page.locator('[data-testid=message][data-role=assistant]');
  await answer.getByText('held').waitFor();
  assert.equal(await answer.getAttribute('data-streaming'), 'true');
  assert.ok(await page.getByTestId('stop').isVisible());
  await use.stack.gateway.release();
  await shows(page, ['user', '[[hold]]'], ['assistant', 'held released']);
  await page.getByTestId('stop').waitFor({ state: 'hidden' });

  await say(page, '**bold** `code` <img src=x onerror=alert(1)> [bad](javascript:alert(1)) ‮');
  const last = answer.last();
  await last.locator('strong', { hasText: 'bold' }).waitFor();
  await last.locator('code', { hasText: 'code' }).waitFor();
  assert.equal(await page.locator('#items img').count(), 0);
  assert.equal(await page.locator('#items a[href^="javascript:"]').count(), 0);
  assert.ok((await page.title()).includes('[[hold]]'), 'the first message names the chat');
});

test('a tool call shows as a card that opens (CR-31, CR-32)', async () => {
  const page = await use.open();
  await say(page, '[[tool hold]]');
  const card = page.getByTestId('tool-card');
  await card.getByText('terminal').waitFor();
  await use.stack.gateway.release();
  await page.getByTestId('transcript').getByText('Two.').waitFor();
  await card.locator('summary').click();
  await card.getByText('echo hi').first().waitFor();
  await card.getByText('"output": "hi"').or(card.getByText('exit_code')).first().waitFor();
  await screenshot(page, 'tool-card');
  await say(page, '[[tool fail]]');
  await page.locator('[data-testid=tool-card][data-state=error]').waitFor();
});

test('messages queue, one is cancelled, the others run (CR-45, CR-50)', async () => {
  const page = await use.open();
  await say(page, '[[hold]]');
  await page.getByTestId('transcript').getByText('held').waitFor();
  await say(page, 'second');
  await say(page, 'third');
  const waiting = page.getByTestId('queue-item');
  await waiting.nth(1).waitFor();
  await screenshot(page, 'queue');
  await waiting.filter({ hasText: 'second' }).getByTestId('queue-cancel').click();
  await waiting.filter({ hasText: 'second' }).waitFor({ state: 'detached' });
  await use.stack.gateway.release();
  await shows(page, ['user', '[[hold]]'], ['assistant', 'held released'], ['user', 'third'], ['assistant', 'echo: third']);
  assert.equal(await waiting.count(), 0);
});

test('Stop keeps the text so far, also after a reload (CR-69, ABT-04)', async () => {
  const page = await use.open();
  await say(page, '[[hold]]');
  await page.getByTestId('transcript').getByText('held').waitFor();
  await page.getByTestId('stop').click();
  await page.getByTestId('notice').getByText('Stopped').waitFor();
  await page.getByTestId('stop').waitFor({ state: 'hidden' });
  await shows(page, ['user', '[[hold]]'], ['assistant', 'held']);
  await page.reload();
  await shows(page, ['user', '[[hold]]'], ['assistant', 'held']);
  await say(page, 'next');
  await shows(page, ['user', '[[hold]]'], ['assistant', 'held'], ['user', 'next'], ['assistant', 'echo: next']);
});

test('a failure is shown and the chat goes on (CR-40)', async () => {
  const page = await use.open();
  await say(page, '[[fail 500]]');
  await page.getByTestId('error').getByText('Upstream 500').waitFor();
  await page.reload();
  await page.getByTestId('notice').getByText('This message was not answered').waitFor();
  await say(page, 'again');
  await page.getByTestId('transcript').getByText('echo: again').waitFor();
});

test('a reload in mid-run shows the whole text exactly once (CR-59, RES-02)', async () => {
  const page = await use.open();
  await say(page, '[[slow 80 25ms]]');
  for (const word of ['word5', 'word20', 'word35']) {
    await page.getByTestId('transcript').getByText(word).waitFor();
    await page.reload();
  }
  await page.getByTestId('transcript').getByText('word80').waitFor();
  await page.getByTestId('stop').waitFor({ state: 'hidden' });
  const whole = Array.from({ length: 80 }, (_, i) => `word${i + 1}`).join(' ');
  await shows(page, ['user', '[[slow 80 25ms]]'], ['assistant', whole]);
});

test('the network goes away in mid-run and comes back (CR-9, RES-01)', async () => {
  const context = await use.context();
  const page = await use.open({ context });
  await say(page, '[[hold]]');
  await page.getByTestId('transcript').getByText('held').waitFor();
  await use.stack.gateway.held(1);
  await context.setOffline(true);
  await page.locator('#banner').getByText('Connection lost').waitFor();
  await use.stack.gateway.release();
  await context.setOffline(false);
  await shows(page, ['user', '[[hold]]'], ['assistant', 'held released']);
  await page.locator('#banner').waitFor({ state: 'hidden' });
  const offline = use.faults.splice(0);
  assert.ok(offline.every((text) => text.includes('ERR_INTERNET_DISCONNECTED')), offline.join('\n'));
});

test('the server crashes in mid-run: the page comes back by itself with all there is (RES-03, QUE-05)', async () => {
  const page = await use.open();
  await say(page, '[[hold]]');
  await page.getByTestId('transcript').getByText('held').waitFor();
  await say(page, 'waits');
  await page.getByTestId('queue-item').waitFor();
  await use.stack.crash();
  await page.locator('[data-testid=message][data-role=assistant]').getByText('echo: waits').waitFor();
  const shown = await messages(page);
  assert.deepEqual(shown.filter(([role]) => role === 'user'), [['user', '[[hold]]'], ['user', 'waits']]);
  assert.equal(shown.at(-1)[1], 'echo: waits');
  assert.equal(await page.getByTestId('stop').isVisible(), false);
  const lost = use.faults.splice(0);
  assert.ok(lost.every((text) => /ERR_CONNECTION|net::ERR|closed before/.test(text)), lost.join('\n'));
});

test('a second tab sees everything: messages, stream, queue, stop (CR-23, RES-05)', async () => {
  const context = await use.context();
  const first = await use.open({ context });
  await say(first, '[[hold]]');
  await first.getByTestId('transcript').getByText('held').waitFor();
  const second = await context.newPage();
  await second.goto(first.url());
  await shows(second, ['user', '[[hold]]'], ['assistant', 'held']);
  await say(second, 'from the second tab');
  for (const page of [first, second]) await page.getByTestId('queue-item').getByText('from the second tab').waitFor();
  await use.stack.gateway.release();
  const all = [['user', '[[hold]]'], ['assistant', 'held released'], ['user', 'from the second tab'], ['assistant', 'echo: from the second tab']];
  await shows(first, ...all);
  await shows(second, ...all);
  await say(first, '[[silent]]');
  await second.getByTestId('stop').click();
  for (const page of [first, second]) await page.getByTestId('notice').getByText('Stopped').waitFor();
});

test('chats are listed, renamed, found and deleted', async () => {
  const page = await use.open();
  await say(page, 'an unusual subject');
  await page.getByTestId('transcript').getByText('echo: an unusual subject').waitFor();
  const item = page.getByTestId('session-item');
  await item.getByText('an unusual subject').waitFor();
  await page.getByTestId('rename').click();
  await page.getByTestId('rename-input').fill('Renamed chat');
  await page.getByTestId('rename-confirm').click();
  await item.getByText('Renamed chat').waitFor();
  assert.equal(await page.getByTestId('title').innerText(), 'Renamed chat');
  await page.getByTestId('new-chat').click();
  await shows(page);
  await page.getByTestId('search').fill('renamed');
  await item.getByText('Renamed chat').click();
  await shows(page, ['user', 'an unusual subject'], ['assistant', 'echo: an unusual subject']);
  await page.getByTestId('delete').click();
  await page.getByTestId('delete-confirm').click();
  await item.getByText('Renamed chat').waitFor({ state: 'detached' });
  await page.reload();
  await page.getByTestId('composer').waitFor();
  assert.deepEqual(await messages(page), []);
});
