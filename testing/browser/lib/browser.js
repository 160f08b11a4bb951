// Headless Chromium on the page of an edge, with a record of everything a user should never cause.

import { existsSync, mkdirSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { after, afterEach, before } from 'node:test';
import assert from 'node:assert/strict';

import { chromium } from 'playwright-core';

import { startStack } from '../../e2e/stack/stack.mjs';

export const ALICE = 'secret-of-alice-0123456789';
const USERS = { alice: { token: ALICE } };
const PATIENCE_MS = 20_000;
const SCREENSHOTS = fileURLToPath(new URL('../screenshots/', import.meta.url));

const FLAGS = ['--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync'];
const BROWSERS = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome', '/Applications/Google Chrome.app/Contents/MacOS/Google Chrome'];

function browserPath() {
  const found = process.env.HERMES_EDGE_CHROMIUM || BROWSERS.find((path) => existsSync(path));
  if (!found) throw new Error(`no Chromium among ${BROWSERS.join(', ')}; install one or set HERMES_EDGE_CHROMIUM`);
  return found;
}

/** suite starts a stack and a browser before the tests of this file. */
export function suite() {
  const use = { stack: undefined, browser: undefined, faults: [] };
  before(async () => {
    mkdirSync(SCREENSHOTS, { recursive: true });
    use.stack = await startStack({ users: USERS });
    use.browser = await chromium.launch({ executablePath: browserPath(), args: FLAGS });
  });
  afterEach(async () => {
    await Promise.all(use.browser.contexts().map((context) => context.close()));
    // What a failed test left waiting must not disturb the next one.
    await use.stack.gateway.call('POST', 'release');
    const faults = use.faults.splice(0);
    assert.deepEqual(faults, [], 'the console must stay clean');
  });
  after(async () => {
    await use.browser?.close();
    await use.stack?.stop();
  });
  use.context = async (options) => {
    const context = await use.browser.newContext(options);
    context.setDefaultTimeout(PATIENCE_MS);
    await context.addInitScript(() => addEventListener('securitypolicyviolation', (event) => console.error(`CSP: ${event.violatedDirective} ${event.blockedURI}`)));
    context.on('console', (message) => message.type() === 'error' && use.faults.push(message.text()));
    context.on('weberror', (error) => use.faults.push(String(error.error())));
    return context;
  };
  /** open shows the page, signed in, in a browser of its own or in that of the given context. */
  use.open = async ({ context, ...options } = {}) => {
    const page = await (context || (await use.context(options))).newPage();
    await page.goto(`${use.stack.url}/chat-run/#token=${ALICE}`);
    await page.getByTestId('composer').waitFor();
    return page;
  };
  return use;
}

export function screenshot(page, name) {
  return page.screenshot({ path: `${SCREENSHOTS}${name}.png` });
}

/** say types a message and presses Enter, which sends it unless the screen is touched. */
export async function say(page, text) {
  await page.getByTestId('composer').fill(text);
  await page.getByTestId('composer').press('Enter');
}

/** messages returns what the transcript shows, as [role, text]; messages that are still being sent are left out. */
export function messages(page) {
  return page.locator('[data-testid=message]:not([data-pending])').evaluateAll((nodes) => nodes.map((node) => [node.dataset.role, node.innerText.trim()]));
}

/** shows waits until the transcript is exactly this. */
export async function shows(page, ...expected) {
  try {
    await page.waitForFunction((wanted) => {
      const nodes = [...document.querySelectorAll('[data-testid=message]:not([data-pending])')];
      return JSON.stringify(nodes.map((node) => [node.dataset.role, node.innerText.trim()])) === wanted;
    }, JSON.stringify(expected));
  } catch (error) {
    assert.deepEqual(await messages(page), expected);
    throw error;
  }
}

/** widerThanScreen names the elements that make the page scroll sideways. */
export function widerThanScreen(page) {
  return page.evaluate(() => {
    const width = document.documentElement.clientWidth;
    if (document.documentElement.scrollWidth <= width && document.body.scrollWidth <= width) return [];
    const wide = [...document.querySelectorAll('body *')].filter((node) => node.getBoundingClientRect().right > width + 1);
    return wide.map((node) => `${node.tagName} ${node.id || node.className}`);
  });
}
