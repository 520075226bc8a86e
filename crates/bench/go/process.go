package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// residentBytes is the memory that this process uses, as the kernel counts it.
func residentBytes() (int64, error) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	kibibytes, err := strconv.ParseInt(word(status, "VmRSS:"), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("/proc/self/status does not say how much memory the process uses (VmRSS)")
	}
	return kibibytes * 1024, nil
}

// blocked is how often the threads of this process have blocked, but for the calling one, and whether all of them sleep now; see process.rs.
func blocked() (times int64, now bool, err error) {
	own := strconv.Itoa(syscall.Gettid())
	entries, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return 0, false, err
	}
	now = true
	for _, entry := range entries {
		status, err := os.ReadFile("/proc/self/task/" + entry.Name() + "/status")
		// A thread that has ended meanwhile has none.
		if err != nil || entry.Name() == own {
			continue
		}
		switches, err := strconv.ParseInt(word(status, "voluntary_ctxt_switches:"), 10, 64)
		if err != nil {
			return 0, false, err
		}
		times += switches
		now = now && word(status, "State:") == "S"
	}
	return times, now, nil
}

// waitForRest waits until the other threads sleep and none has blocked anew between two looks; the caller is locked to its thread.
func waitForRest(patience time.Duration) error {
	deadline := time.Now().Add(patience)
	before, _, err := blocked()
	for err == nil {
		sleepInKernel(100 * time.Millisecond)
		after, now, failed := blocked()
		if failed != nil || (now && after == before) || time.Now().After(deadline) {
			return failed
		}
		before = after
	}
	return err
}

// sleepInKernel blocks the calling thread, without Go's timers.
func sleepInKernel(duration time.Duration) {
	left := syscall.NsecToTimespec(duration.Nanoseconds())
	for syscall.Nanosleep(&left, &left) == syscall.EINTR {
	}
}

// word is the first one after name at the begin of a line.
func word(status []byte, name string) string {
	for _, line := range strings.Split(string(status), "\n") {
		if value, ok := strings.CutPrefix(line, name); ok {
			if words := strings.Fields(value); len(words) > 0 {
				return words[0]
			}
		}
	}
	return ""
}
