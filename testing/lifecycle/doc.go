// Package lifecycle tests the edge as a process: start, reload, exit, and life
// beside other directives of a site. The binary is built once and runs as a child
// on free ports with an admin endpoint of its own.
package lifecycle
