/** A dialog over the page, which keeps the focus until it is closed and gives it back then. */
import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";

interface DialogProps {
  readonly label: string;
  /** Called when it was closed by Escape or by a click beside it; without it, neither closes it. */
  readonly close?: (() => void) | undefined;
  readonly class?: string;
  readonly children: ComponentChildren;
}

/** Opens a dialog. */
export function Dialog({ label, close, children, class: name = "" }: DialogProps) {
  const element = useRef<HTMLDialogElement>(null);
  useLayoutEffect(() => {
    const dialog = element.current;
    const opener = document.activeElement;
    dialog?.showModal();
    return () => {
      dialog?.close();
      if (opener instanceof HTMLElement && opener.isConnected) opener.focus();
    };
  }, []);
  const cancel = (event: Event) => {
    event.preventDefault();
    close?.();
  };
  // A click on the dialog itself is one beside its contents.
  const clicked = (event: MouseEvent) => {
    if (event.target === element.current) close?.();
  };
  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: Escape does the same.
    <dialog ref={element} class={`over ${name}`} aria-label={label} onCancel={cancel} onClick={clicked}>
      <div class="over-body">{children}</div>
    </dialog>
  );
}
