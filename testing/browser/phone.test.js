// The page on a phone.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { say, screenshot, suite, widerThanScreen } from './lib/browser.js';

const use = suite();
const PHONE = { viewport: { width: 360, height: 740 }, deviceScaleFactor: 2, isMobile: true, hasTouch: true };

test('nothing scrolls sideways: sign-in, long words, code, tables, tools, queue, menu', async () => {
  const context = await use.context(PHONE);
  const signIn = await context.newPage();
  await signIn.goto(`${use.stack.url}/chat-run/`);
  await signIn.getByTestId('token-input').waitFor();
  assert.deepEqual(await widerThanScreen(signIn), [], 'sign-in');
  use.faults.splice(0);

  const page = await use.open({ context });
  const send = async (text, seen) => {
    await page.getByTestId('composer').fill(text);
    await page.getByTestId('send').click();
    await seen.waitFor();
  };
  const answers = page.locator('[data-testid=message][data-role=assistant]');
  await send('w'.repeat(400), answers.nth(0).getByText('www'));
  await send(`x\n\n\`\`\`\n${'code '.repeat(80)}\n\`\`\`\n\n| a | b | c |\n|---|---|---|\n| ${'cell'.repeat(30)} | 2 | 3 |\n\nhttps://example.com/${'path/'.repeat(60)}`, answers.nth(1).locator('pre'));
  await send('[[tool]]', page.getByTestId('transcript').getByText('Two.'));
  await page.getByTestId('tool-card').locator('summary').click();
  await send('[[hold]]', page.getByTestId('transcript').getByText('held'));
  await send(`waits ${'q'.repeat(300)}`, page.getByTestId('queue-item'));
  assert.deepEqual(await widerThanScreen(page), [], 'chat');
  await screenshot(page, 'phone-chat');
  await page.getByTestId('open-menu').click();
  await page.getByTestId('session-item').first().waitFor();
  assert.deepEqual(await widerThanScreen(page), [], 'menu');
  await screenshot(page, 'phone-menu');
  await use.stack.gateway.release();
});

test('the composer stays in sight and the newest text too', async () => {
  const page = await use.open(PHONE);
  await page.getByTestId('composer').fill('[[slow 200 1ms]]');
  await page.getByTestId('send').click();
  await page.getByTestId('transcript').getByText('word200').waitFor();
  const inSight = (locator) => locator.evaluate((node) => {
    const box = node.getBoundingClientRect();
    return box.bottom > 0 && box.bottom <= innerHeight + 1;
  });
  assert.ok(await inSight(page.getByTestId('composer')));
  assert.ok(await inSight(page.locator('[data-testid=message][data-role=assistant]').last()));
  assert.equal(await page.evaluate(() => document.documentElement.scrollHeight <= innerHeight), true, 'only the transcript scrolls');
});

test('Enter makes a new line on a touch screen, the button sends', async () => {
  const page = await use.open(PHONE);
  await say(page, 'one line');
  assert.equal(await page.getByTestId('composer').inputValue(), 'one line\n');
  await page.getByTestId('send').click();
  await page.getByTestId('transcript').getByText('echo: one line').waitFor();
});
