// fetch URL: prints the body. net/http reads the proxy variables and SSL_CERT_FILE by itself.
package main

import (
	"io"
	"log"
	"net/http"
	"os"
)

func main() {
	answer, err := http.Get(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	if answer.StatusCode != http.StatusOK {
		log.Fatal(answer.Status)
	}
	io.Copy(os.Stdout, answer.Body)
}
