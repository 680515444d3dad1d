// The studio as a page: the token is that of the address.
makeStudio(document, makeHttpLink(new URLSearchParams(location.search).get("token") ?? ""));
