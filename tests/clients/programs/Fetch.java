// Fetch URL: prints the body. Trusts what is in $SSL_CERT_FILE, all of it; goes through $HTTPS_PROXY where that is set.

import java.io.FileInputStream;
import java.net.InetSocketAddress;
import java.net.ProxySelector;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse.BodyHandlers;
import java.security.KeyStore;
import java.security.cert.Certificate;
import java.security.cert.CertificateFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;

public class Fetch {
    static SSLContext trust(String file) throws Exception {
        KeyStore store = KeyStore.getInstance(KeyStore.getDefaultType());
        store.load(null, null);
        try (FileInputStream in = new FileInputStream(file)) {
            int number = 0;
            for (Certificate each : CertificateFactory.getInstance("X.509").generateCertificates(in)) {
                store.setCertificateEntry("ca" + number++, each);
            }
        }
        TrustManagerFactory factory = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
        factory.init(store);
        SSLContext context = SSLContext.getInstance("TLS");
        context.init(null, factory.getTrustManagers(), null);
        return context;
    }

    public static void main(String[] arguments) throws Exception {
        HttpClient.Builder client = HttpClient.newBuilder().sslContext(trust(System.getenv("SSL_CERT_FILE")));
        String proxy = System.getenv("HTTPS_PROXY");
        if (proxy != null) {
            URI where = URI.create(proxy);
            client.proxy(ProxySelector.of(new InetSocketAddress(where.getHost(), where.getPort())));
        }
        HttpRequest request = HttpRequest.newBuilder(URI.create(arguments[0])).build();
        System.out.print(client.build().send(request, BodyHandlers.ofString()).body());
        System.exit(0);
    }
}
