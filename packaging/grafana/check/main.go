// Reads a dashboard as Grafana does, by the types of its foundation SDK: what is missing or unknown is told, a line each,
// exit status 1.
package main

import (
	"fmt"
	"os"

	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
)

// The SDK's list of errors may be there and empty.
func fail(err error, status int) {
	if err != nil && err.Error() != "" {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(status)
	}
}

func main() {
	if len(os.Args) != 2 {
		fail(fmt.Errorf("usage: check DASHBOARD"), 2)
	}
	text, err := os.ReadFile(os.Args[1])
	fail(err, 2)
	var read dashboard.Dashboard
	fail(read.UnmarshalJSONStrict(text), 1)
	fail(read.Validate(), 1)
}
