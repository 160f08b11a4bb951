// Package e2e starts the real edge binary, as a child process, in front of the
// scripted gateway or any other one. The end-to-end suites in Go use it directly;
// those in Node and the browser use it through the command e2e/stack.
//
// Package e2e/chat is the client of the suites in Go.
package e2e
