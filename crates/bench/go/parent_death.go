package main

import (
	"fmt"
	"os"
	"strconv"
	"syscall"
)

// Ends this process with the command that has started it, if that says so; see leash.rs. The kernel keeps the request with the thread that made it, which
// is the first one while packages are initialized.
func init() {
	launcher, ok := os.LookupEnv("QUADRILLE_LAUNCHER")
	if !ok {
		return
	}
	if _, _, errno := syscall.RawSyscall(syscall.SYS_PRCTL, syscall.PR_SET_PDEATHSIG, uintptr(syscall.SIGKILL), 0); errno != 0 {
		fmt.Fprintln(os.Stderr, "cannot tie the run to its command:", errno)
		os.Exit(1)
	}
	if launcher != strconv.Itoa(os.Getppid()) {
		fmt.Fprintf(os.Stderr, "the command that started the run, %s, has ended\n", launcher)
		os.Exit(1)
	}
}
