package main

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"time"
)

const greeting = "Hello, world!"

// messageMax is the longest message of tbench.
const messageMax = 70_000

// serve mirrors workloads/serve.rs: a server here, and the load generator of the Rust program in a process of its own.
func serve(p params) (measured, error) {
	address, err := startServer(p.Service)
	if err != nil {
		return measured{}, err
	}
	if p.Spinner {
		go func() {
			for {
				work(20 * time.Millisecond)
				time.Sleep(80 * time.Millisecond)
			}
		}()
	}
	g, err := startGenerator(address, p)
	if err != nil {
		return measured{}, err
	}
	defer g.command.Wait()
	m := startMeter()
	g.run()
	result := m.stop(0)
	seen, err := g.seen()
	if err != nil {
		return measured{}, err
	}
	result.Ops, result.WallNs = seen.Requests, seen.WallNs
	result.LongestWaitNs, result.Counters = &seen.LongestNs, seen.Counters
	return result, nil
}

// idle mirrors workloads/idle.rs: a server whose clients are connected and say nothing.
func idle(p params) (measured, error) {
	address, err := startServer("tcp_echo")
	if err != nil {
		return measured{}, err
	}
	// A thread that blocks in the kernel itself, so that what Go needs for its own timers is not counted.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := waitForRest(10 * time.Second); err != nil {
		return measured{}, err
	}
	before, err := residentBytes()
	if err != nil {
		return measured{}, err
	}
	order := p
	order.Service, order.Size, order.Millis = "tcp_echo", 64, 1
	g, err := startGenerator(address, order)
	if err != nil {
		return measured{}, err
	}
	defer g.command.Wait()
	if err := waitForRest(10 * time.Second); err != nil {
		return measured{}, err
	}
	resident, err := residentBytes()
	if err != nil {
		return measured{}, err
	}
	blockedBefore, _, err := blocked()
	if err != nil {
		return measured{}, err
	}
	m := startMeter()
	sleepInKernel(time.Duration(p.Millis) * time.Millisecond)
	result := m.stop(p.Connections)
	blockedAfter, _, err := blocked()
	if err != nil {
		return measured{}, err
	}
	result.Vcsw = max(blockedAfter-blockedBefore, 0)
	result.Counters["wake_ups"] = result.Vcsw
	result.Counters["rss_bytes"] = max(resident-before, 0)
	g.run()
	seen, err := g.seen()
	if err != nil {
		return measured{}, err
	}
	if seen.Requests < int64(p.Connections) {
		return measured{}, fmt.Errorf("%d echoes came over %d connections", seen.Requests, p.Connections)
	}
	return result, nil
}

// generator is the load generator of the Rust program, connected, and waiting for a word.
type generator struct {
	command *exec.Cmd
	input   io.Writer
	lines   *bufio.Scanner
}

// seen is what it saw.
type seen struct {
	Requests  int64            `json:"requests"`
	WallNs    int64            `json:"wall_ns"`
	LongestNs int64            `json:"longest_ns"`
	Counters  map[string]int64 `json:"counters"`
}

func startGenerator(address string, p params) (*generator, error) {
	order, err := json.Marshal(map[string]any{
		"address": address,
		"serve": map[string]any{
			"service": p.Service, "connections": p.Connections, "size": p.Size,
			"rate": p.Rate, "spinner": p.Spinner, "millis": p.Millis,
		},
	})
	if err != nil {
		return nil, err
	}
	command := exec.Command(os.Getenv("QUADRILLE_GENERATOR"), "generate", string(order))
	command.Stderr = os.Stderr
	input, err := command.StdinPipe()
	if err != nil {
		return nil, err
	}
	output, err := command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := command.Start(); err != nil {
		return nil, err
	}
	lines := bufio.NewScanner(output)
	if !lines.Scan() || lines.Text() != "begin" {
		return nil, stopped(lines.Text())
	}
	return &generator{command, input, lines}, nil
}

// run lets it send what counts, and waits until it has.
func (g *generator) run() {
	fmt.Fprintln(g.input, "go")
	g.lines.Scan()
}

func (g *generator) seen() (seen, error) {
	var last struct {
		seen
		stop
	}
	if err := json.Unmarshal(g.lines.Bytes(), &last); err != nil || last.stop != (stop{}) {
		return seen{}, stopped(g.lines.Text())
	}
	return last.seen, nil
}

// stop is what the load generator says in its last line if it has stopped early.
type stop struct {
	Unsupported string `json:"unsupported"`
	Failed      string `json:"failed"`
}

// stopped is why the load generator has stopped, as far as it says that.
func stopped(line string) error {
	var s stop
	_ = json.Unmarshal([]byte(line), &s)
	switch {
	case s.Unsupported != "":
		return unsupported(s.Unsupported)
	case s.Failed != "":
		return fmt.Errorf("the load generator: %s", s.Failed)
	}
	return fmt.Errorf("the load generator said %q; stderr has the reason", line)
}

func startServer(service string) (string, error) {
	if service == "udp_echo" {
		socket, err := net.ListenPacket("udp", "127.0.0.1:0")
		if err != nil {
			return "", err
		}
		for i := 0; i < runtime.GOMAXPROCS(0); i++ {
			go echoDatagrams(socket.(*net.UDPConn))
		}
		return socket.LocalAddr().String(), nil
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	if service == "http" {
		go http.Serve(listener, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(greeting))
		}))
	} else {
		go func() {
			for {
				connection, err := listener.Accept()
				if err != nil {
					return
				}
				if service == "tbench" {
					go answerFiles(connection)
				} else {
					go echo(connection)
				}
			}
		}()
	}
	return listener.Addr().String(), nil
}

// echo sends back what comes; Go's connections have TCP_NODELAY set.
func echo(connection net.Conn) {
	defer connection.Close()
	buffer := make([]byte, 4096)
	for {
		length, err := connection.Read(buffer)
		if err != nil {
			return
		}
		if _, err := connection.Write(buffer[:length]); err != nil {
			return
		}
	}
}

// answerFiles mirrors the server of workloads/tbench.rs: a request begins with how long it and its answer are, and the answer takes its bytes
// from the buffer that requests come to.
func answerFiles(connection net.Conn) {
	defer connection.Close()
	buffer := make([]byte, messageMax)
	for i := range buffer {
		buffer[i] = byte(i % 251)
	}
	filled := 0
	for {
		length, err := connection.Read(buffer[filled:])
		if err != nil {
			return
		}
		filled += length
		if filled < 8 {
			continue
		}
		request := int(binary.BigEndian.Uint32(buffer)) + 4
		answer := int(binary.BigEndian.Uint32(buffer[4:])) + 4
		if request < 8 || request > messageMax || answer > messageMax || filled > request {
			return
		}
		if filled < request {
			continue
		}
		filled = 0
		copy(buffer, buffer[4:8])
		if _, err := connection.Write(buffer[:answer]); err != nil {
			return
		}
	}
}

func echoDatagrams(socket *net.UDPConn) {
	buffer := make([]byte, 4096)
	for {
		length, peer, err := socket.ReadFromUDPAddrPort(buffer)
		if err != nil {
			return
		}
		if _, err := socket.WriteToUDPAddrPort(buffer[:length], peer); err != nil {
			return
		}
	}
}
