package main

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// browser is a headless Chromium, spoken to in the DevTools protocol over a pair of
// pipes: messages in JSON, each ended by a zero byte.
type browser struct {
	t        *testing.T
	in       io.Writer
	messages chan message
	session  string
	sent     int
	said     []string // what pages complained of
	asked    []string // addresses that pages asked for
}

type message struct {
	ID     int             `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *struct{ Message string }
}

// patience is how long another process on a busy machine may take for one answer.
const patience = 60 * time.Second

// startBrowser starts Chromium with an empty page. Where there is none, the test is
// skipped, or fails if FLASHDEC_REQUIRE lists chromium.
func startBrowser(t *testing.T) *browser {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("pages are not opened on Windows, where a process inherits no pipe by its number")
	}
	name := ""
	for _, n := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(n); err == nil {
			name = path
			break
		}
	}
	if name == "" {
		if slices.Contains(strings.Split(os.Getenv("FLASHDEC_REQUIRE"), ","), "chromium") {
			t.Fatal("FLASHDEC_REQUIRE=chromium, but there is none in PATH")
		}
		t.Skip("no Chromium in PATH: pages are not opened (Debian: apt-get install chromium)")
	}
	b := &browser{t: t, messages: make(chan message, 64)}
	b.start(name)
	var target struct{ TargetID string }
	b.call("Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	var attached struct{ SessionID string }
	b.call("Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &attached)
	b.session = attached.SessionID
	for _, domain := range []string{"Page", "Runtime", "Log", "Network", "Accessibility"} {
		b.call(domain+".enable", nil, nil)
	}
	return b
}

func (b *browser) start(name string) {
	b.t.Helper()
	// Chromium reads its pipe as file 3 and writes to 4. Its own sandbox does not work
	// for root, nor in most containers; the pages are our own.
	cmd := exec.Command(name, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
		"--remote-debugging-pipe", "--user-data-dir="+b.t.TempDir())
	hears, in, err := os.Pipe()
	if err != nil {
		b.t.Fatal(err)
	}
	out, speaks, err := os.Pipe()
	if err != nil {
		b.t.Fatal(err)
	}
	cmd.ExtraFiles = []*os.File{hears, speaks}
	if err := cmd.Start(); err != nil {
		b.t.Fatal(err)
	}
	_, _ = hears.Close(), speaks.Close() // the browser has its own
	b.in = in
	go b.read(out)
	b.t.Cleanup(func() {
		_ = in.Close() // ends the browser
		gone := make(chan struct{})
		go func() { _ = cmd.Wait(); close(gone) }()
		select {
		case <-gone:
		case <-time.After(10 * time.Second):
			_ = cmd.Process.Kill()
			<-gone
		}
		_ = out.Close() // nobody writes any more
	})
}

func (b *browser) read(out io.Reader) {
	defer close(b.messages)
	for r := bufio.NewReader(out); ; {
		text, err := r.ReadBytes(0)
		if err != nil {
			return
		}
		var m message
		if json.Unmarshal(text[:len(text)-1], &m) == nil {
			b.messages <- m
		}
	}
}

// call sends a command and waits for its answer.
func (b *browser) call(method string, params, result any) {
	b.t.Helper()
	b.sent++
	command := map[string]any{"id": b.sent, "method": method}
	if params != nil {
		command["params"] = params
	}
	if b.session != "" {
		command["sessionId"] = b.session
	}
	text, err := json.Marshal(command)
	if err != nil {
		b.t.Fatal(err)
	}
	if _, err := b.in.Write(append(text, 0)); err != nil {
		b.t.Fatalf("%s: %v", method, err)
	}
	m := b.until(method, func(m message) bool { return m.ID == b.sent })
	if m.Error != nil {
		b.t.Fatalf("%s: %s", method, m.Error.Message)
	}
	if result != nil {
		if err := json.Unmarshal(m.Result, result); err != nil {
			b.t.Fatalf("%s: %v", method, err)
		}
	}
}

// until reads messages up to one that is wanted, and notes what pages complain of
// and ask for.
func (b *browser) until(what string, wanted func(message) bool) message {
	b.t.Helper()
	late := time.After(patience)
	for {
		select {
		case m, open := <-b.messages:
			if !open {
				b.t.Fatalf("%s: the browser has ended", what)
			}
			b.note(m)
			if wanted(m) {
				return m
			}
		case <-late:
			b.t.Fatalf("%s: no answer in %v", what, patience)
		}
	}
}

func (b *browser) note(m message) {
	switch m.Method {
	case "Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded":
		b.said = append(b.said, m.Method+" "+string(m.Params))
	case "Network.requestWillBeSent":
		var sent struct{ Request struct{ URL string } }
		if err := json.Unmarshal(m.Params, &sent); err == nil {
			b.asked = append(b.asked, sent.Request.URL)
		}
	}
}

// open loads a page and waits until its script has run.
func (b *browser) open(url string) {
	b.t.Helper()
	b.said, b.asked = nil, nil
	var went struct{ ErrorText string }
	b.call("Page.navigate", map[string]any{"url": url}, &went)
	if went.ErrorText != "" {
		b.t.Fatalf("%s: %s", url, went.ErrorText)
	}
	for b.text("document.readyState") != "complete" {
		time.Sleep(10 * time.Millisecond)
	}
}

// eval is an expression's value in the page.
func (b *browser) eval(expression string, value any) {
	b.t.Helper()
	var got struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails *struct{ Exception struct{ Description string } }
	}
	b.call("Runtime.evaluate", map[string]any{"expression": expression, "returnByValue": true}, &got)
	if got.ExceptionDetails != nil {
		b.t.Fatalf("%s: %s", expression, got.ExceptionDetails.Exception.Description)
	}
	if err := json.Unmarshal(got.Result.Value, value); err != nil {
		b.t.Fatalf("%s: %v of %s", expression, err, got.Result.Value)
	}
}

func (b *browser) text(expression string) (s string) {
	b.t.Helper()
	b.eval(expression, &s)
	return s
}

func (b *browser) number(expression string) (x float64) {
	b.t.Helper()
	b.eval(expression, &x)
	return x
}

// press is a key, down and up.
func (b *browser) press(key string, code int) {
	b.t.Helper()
	for _, kind := range []string{"rawKeyDown", "keyUp"} {
		b.call("Input.dispatchKeyEvent", map[string]any{"type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code, "nativeVirtualKeyCode": code}, nil)
	}
}

// prefer sets what the reader prefers, "light" or "dark", and the width of the window.
func (b *browser) prefer(scheme string, width int) {
	b.t.Helper()
	b.call("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": scheme}}}, nil)
	b.call("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}, nil)
}

// screenshot is a part of the page, chosen as CSS does, as a PNG.
func (b *browser) screenshot(part string) ([]byte, error) {
	b.t.Helper()
	var place struct{ X, Y, Width, Height float64 }
	b.eval(fmt.Sprintf(`(() => { const r = document.querySelector(%q).getBoundingClientRect();
		const margin = Math.min(16, r.x);
		return { X: r.x + scrollX - margin, Y: r.y + scrollY, Width: r.width + 2 * margin, Height: r.height + margin }; })()`, part), &place)
	var shot struct{ Data string }
	b.call("Page.captureScreenshot", map[string]any{
		"format": "png", "captureBeyondViewport": true,
		"clip": map[string]any{"x": place.X, "y": place.Y, "width": place.Width, "height": place.Height, "scale": 1},
	}, &shot)
	png, err := base64.StdEncoding.DecodeString(shot.Data)
	if err == nil && len(png) == 0 {
		err = errors.New("an empty picture")
	}
	if err != nil {
		return nil, fmt.Errorf("screenshot: %w", err)
	}
	return png, nil
}
