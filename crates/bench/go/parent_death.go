package main

import (
	"fmt"
	"os"
	"strconv"
	"syscall"
)

// Ends this process with the command that has started it, if that says so; see parent_death.rs. The kernel keeps the request with the thread that made it, which
// is the first one while packages are initialized.
func init() {
	expected, ok := os.LookupEnv("QUADRILLE_PARENT_PID")
	if !ok {
		return
	}
	if _, _, errno := syscall.RawSyscall(syscall.SYS_PRCTL, syscall.PR_SET_PDEATHSIG, uintptr(syscall.SIGKILL), 0); errno != 0 {
		fmt.Fprintln(os.Stderr, "cannot tie the run to its command:", errno)
		os.Exit(1)
	}
	if expected != strconv.Itoa(os.Getppid()) {
		fmt.Fprintf(os.Stderr, "the command that started the run, process %s, has ended\n", expected)
		os.Exit(1)
	}
}
