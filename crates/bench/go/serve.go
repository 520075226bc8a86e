package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"time"
)

const greeting = "Hello, world!"

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
	order, err := json.Marshal(map[string]any{
		"address": address,
		"serve": map[string]any{
			"service": p.Service, "connections": p.Connections, "size": p.Size,
			"rate": p.Rate, "spinner": p.Spinner, "millis": p.Millis,
		},
	})
	if err != nil {
		return measured{}, err
	}
	generator := exec.Command(os.Getenv("QUADRILLE_GENERATOR"), "generate", string(order))
	generator.Stderr = os.Stderr
	input, err := generator.StdinPipe()
	if err != nil {
		return measured{}, err
	}
	output, err := generator.StdoutPipe()
	if err != nil {
		return measured{}, err
	}
	if err := generator.Start(); err != nil {
		return measured{}, err
	}
	defer generator.Wait()
	lines := bufio.NewScanner(output)
	if !lines.Scan() || lines.Text() != "begin" {
		return measured{}, fmt.Errorf("the load generator said %q; stderr has the reason", lines.Text())
	}
	m := startMeter()
	fmt.Fprintln(input, "go")
	lines.Scan()
	result := m.stop(0)
	var seen struct {
		Requests  int64            `json:"requests"`
		WallNs    int64            `json:"wall_ns"`
		LongestNs int64            `json:"longest_ns"`
		Counters  map[string]int64 `json:"counters"`
	}
	if err := json.Unmarshal(lines.Bytes(), &seen); err != nil {
		return measured{}, fmt.Errorf("the load generator said %q; stderr has the reason", lines.Text())
	}
	result.Ops, result.WallNs = seen.Requests, seen.WallNs
	result.LongestWaitNs, result.Counters = &seen.LongestNs, seen.Counters
	return result, nil
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
				go echo(connection)
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
