package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
)

// Cores of a pinned run. The gateway shares the core of the load generator.
const (
	serverCore    = 0
	generatorCore = 1
	anyCore       = -1
)

// canPin reports whether taskset is there and there are two cores.
func canPin() bool {
	_, err := exec.LookPath("taskset")
	return err == nil && runtime.NumCPU() > generatorCore
}

// pinSelf moves the load generator to its core, or to all cores for anyCore.
func pinSelf(core int) error {
	cores, procs := strconv.Itoa(core), 1
	if core == anyCore {
		procs = runtime.NumCPU()
		cores = "0-" + strconv.Itoa(procs-1)
	}
	out, err := exec.Command("taskset", "-a", "-p", "-c", cores, strconv.Itoa(os.Getpid())).CombinedOutput()
	if err != nil {
		return fmt.Errorf("taskset: %w: %s", err, out)
	}
	runtime.GOMAXPROCS(procs)
	return nil
}
