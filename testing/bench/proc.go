package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// ticksPerSecond is USER_HZ, which Linux fixes at 100 for /proc.
const ticksPerSecond = 100

// cpuTime is the user and system time that a process has used, all threads
// together, in steps of 10 ms.
func cpuTime(pid int) (time.Duration, error) {
	stat, err := procFile(pid, "stat")
	if err != nil {
		return 0, err
	}
	return parseCPU(stat)
}

// parseCPU reads utime and stime, fields 14 and 15; the name of the program in
// field 2 may hold anything but ends at the last bracket.
func parseCPU(stat []byte) (time.Duration, error) {
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 13 {
		return 0, fmt.Errorf("stat of a process has %d fields", len(fields))
	}
	user, err := strconv.ParseInt(string(fields[11]), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("utime: %w", err)
	}
	system, err := strconv.ParseInt(string(fields[12]), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("stime: %w", err)
	}
	return time.Duration(user+system) * time.Second / ticksPerSecond, nil
}

// memory is what a process holds, in bytes.
type memory struct{ resident, peak int64 }

func memoryOf(pid int) (memory, error) {
	status, err := procFile(pid, "status")
	if err != nil {
		return memory{}, err
	}
	resident, err := statusValue(status, "VmRSS:")
	if err != nil {
		return memory{}, err
	}
	peak, err := statusValue(status, "VmHWM:")
	return memory{resident << 10, peak << 10}, err
}

// statusValue reads "Name: 123 kB".
func statusValue(status []byte, name string) (int64, error) {
	for line := range bytes.Lines(status) {
		if value, ok := bytes.CutPrefix(line, []byte(name)); ok {
			fields := bytes.Fields(value)
			if len(fields) == 0 {
				break
			}
			return strconv.ParseInt(string(fields[0]), 10, 64)
		}
	}
	return 0, fmt.Errorf("no %s in the status of a process", name)
}

// openFileLimit is the hard limit of open files, to which Go and Node raise
// their own; 0 if there is none.
func openFileLimit() (int, error) {
	limits, err := procFile(os.Getpid(), "limits")
	if err != nil {
		return 0, err
	}
	for line := range bytes.Lines(limits) {
		if value, ok := bytes.CutPrefix(line, []byte("Max open files")); ok {
			fields := bytes.Fields(value)
			if len(fields) < 2 || string(fields[1]) == "unlimited" {
				return 0, nil
			}
			return strconv.Atoi(string(fields[1]))
		}
	}
	return 0, nil
}

func procFile(pid int, name string) ([]byte, error) {
	content, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), name))
	if err != nil {
		return nil, fmt.Errorf("times and memory are read from /proc, this needs Linux and a running process: %w", err)
	}
	return content, nil
}

// usage is the CPU time of a process since a moment.
type usage struct {
	pid   int
	start time.Duration
}

func usageOf(pid int) (usage, error) {
	start, err := cpuTime(pid)
	return usage{pid, start}, err
}

func (u usage) since() (time.Duration, error) {
	now, err := cpuTime(u.pid)
	return now - u.start, err
}

// usagesOf starts at the same moment for several processes.
func usagesOf(pids []int) ([]usage, error) {
	all := make([]usage, 0, len(pids))
	for _, pid := range pids {
		u, err := usageOf(pid)
		if err != nil {
			return nil, err
		}
		all = append(all, u)
	}
	return all, nil
}

// sinceAll adds up what several processes have used.
func sinceAll(all []usage) (time.Duration, error) {
	var sum time.Duration
	for _, u := range all {
		used, err := u.since()
		if err != nil {
			return 0, err
		}
		sum += used
	}
	return sum, nil
}

// busyTime is the time that all cores together have worked, for anybody.
func busyTime() (time.Duration, error) {
	stat, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, err
	}
	return parseBusy(stat)
}

// parseBusy adds the first line up: user, nice, system, idle, iowait, irq,
// softirq, steal; guests are part of user.
func parseBusy(stat []byte) (time.Duration, error) {
	line, _, _ := bytes.Cut(stat, []byte{'\n'})
	fields := bytes.Fields(line)
	if len(fields) < 9 || string(fields[0]) != "cpu" {
		return 0, fmt.Errorf("unexpected first line of /proc/stat: %q", line)
	}
	var ticks int64
	for i, field := range fields[1:9] {
		n, err := strconv.ParseInt(string(field), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("first line of /proc/stat: %w", err)
		}
		if i != 3 && i != 4 {
			ticks += n
		}
	}
	return time.Duration(ticks) * time.Second / ticksPerSecond, nil
}
