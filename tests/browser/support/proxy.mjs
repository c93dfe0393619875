// A TCP proxy that a test can cut, like a network that fails.
import { once } from 'node:events';
import { connect, createServer } from 'node:net';

/** A way to a gateway that can be cut and opened again, at one address. */
export class Proxy {
  #sockets = new Set();
  #isOpen = true;
  #server;

  /** Opens a way to the address `http://HOST:PORT`. */
  static async to(address) {
    const { hostname, port } = new URL(address);
    const proxy = new Proxy();
    proxy.#server = createServer((socket) => proxy.#relay(socket, hostname, port));
    proxy.#server.listen(0, '127.0.0.1');
    await once(proxy.#server, 'listening');
    proxy.address = `http://127.0.0.1:${proxy.#server.address().port}`;
    return proxy;
  }

  #relay(socket, host, port) {
    if (!this.#isOpen) {
      socket.destroy();
      return;
    }
    const onward = connect(Number(port), host);
    for (const [one, other] of [
      [socket, onward],
      [onward, socket],
    ]) {
      this.#sockets.add(one);
      one.on('error', () => other.destroy());
      one.on('close', () => {
        other.destroy();
        this.#sockets.delete(one);
      });
      one.pipe(other);
    }
  }

  /** Ends all connections, and refuses further ones until `mend`. */
  cut() {
    this.#isOpen = false;
    for (const socket of this.#sockets) {
      socket.destroy();
    }
  }

  /** Relays new connections again. */
  mend() {
    this.#isOpen = true;
  }

  /** Ends all connections and the listener. */
  close() {
    this.cut();
    this.#server.close();
  }
}
