// The two dialogs: rename and delete.

import { byId } from './render.js';

/** openDialog shows a dialog and runs submit() until it succeeds; a failure is shown inside. */
export function openDialog(name, submit) {
  const dialog = byId(`${name}-dialog`);
  const form = byId(`${name}-form`);
  const failure = byId(`${name}-error`);
  const confirm = byId(`${name}-confirm`);
  failure.hidden = true;
  form.onsubmit = async (event) => {
    event.preventDefault();
    confirm.disabled = true;
    try {
      await submit();
      dialog.close();
    } catch (error) {
      failure.textContent = error.message;
      failure.hidden = false;
    } finally {
      confirm.disabled = false;
    }
  };
  dialog.querySelector('[data-close]').onclick = () => dialog.close();
  dialog.showModal();
}
