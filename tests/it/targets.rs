//! Where a webhook may point (`contract.md` §14): every trick of notation, every kind of address that is not public.

use mercato::courier::target::{Allowed, is_public};
use mercato::model::webhook::AttemptError;

/// What each URL is refused for; `None` may be written down.
const URLS: &[(&str, Option<&str>)] = &[
    ("https://hooks.example.com/a?b=c", None),
    ("HTTPS://hooks.example.com", None),
    ("https://hooks.example.com:8443/", None),
    ("https://93.184.215.14/", None),
    ("https://[2606:2800:21f:cb07::1]/", None),
    ("https://xn--mnchen-3ya.example/", None),
    ("https://münchen.example/", Some("URL")),
    ("https://ß£", Some("URL")),
    ("https://hooks.example.com/a b", Some("URL")),
    ("https://hooks.example.com/{id}", Some("URL")),
    ("https://hooks.example.com/%zz", Some("URL")),
    ("http://hooks.example.com/", Some("https")),
    ("ftp://hooks.example.com/", Some("https")),
    ("file:///etc/passwd", Some("https")),
    ("javascript:alert(1)", Some("https")),
    ("hooks.example.com", Some("URL")),
    ("", Some("URL")),
    ("https://", Some("URL")),
    ("https:hooks.example.com", Some("begin")),
    ("https:\\\\hooks.example.com", Some("URL")),
    ("https://user@hooks.example.com/", Some("credentials")),
    ("https://user:secret@hooks.example.com/", Some("credentials")),
    ("https://:@hooks.example.com/", Some("credentials")),
    ("https://@hooks.example.com/", Some("credentials")),
    ("https://hooks.example.com/#part", Some("fragment")),
    ("https://hooks.example.com:0/", Some("port")),
    ("https://hooks.example.com:99999/", Some("URL")),
    ("https://hooks.example.com/\r\nHost: evil", Some("URL")),
    ("https://hooks.example.com/\t", Some("URL")),
    (" https://hooks.example.com/", Some("URL")),
    ("https://hooks.exa\u{0}mple.com/", Some("URL")),
    ("https://hooks.exa\nmple.com/", Some("URL")),
    // One address, in every notation that URLs know.
    ("https://127.0.0.1/", Some("private")),
    ("https://127.1/", Some("private")),
    ("https://127.0.1/", Some("private")),
    ("https://2130706433/", Some("private")),
    ("https://0x7f000001/", Some("private")),
    ("https://0x7f.0.0.1/", Some("private")),
    ("https://0177.0.0.1/", Some("private")),
    ("https://017700000001/", Some("private")),
    ("https://127.0.0.1./", Some("private")),
    ("https://%31%32%37.0.0.1/", Some("private")),
    ("https://①②⑦.0.0.1/", Some("URL")),
    ("https://127。0。0。1/", Some("URL")),
    ("https://[::1]/", Some("private")),
    ("https://[0:0:0:0:0:0:0:1]/", Some("private")),
    ("https://[::ffff:127.0.0.1]/", Some("private")),
    ("https://[::ffff:7f00:1]/", Some("private")),
    ("https://[64:ff9b::7f00:1]/", Some("private")),
    ("https://[::127.0.0.1]/", Some("private")),
    // A public one is written as it is connected to.
    ("https://0x8.8.8.8/", Some("usual form")),
    ("https://1.1/", Some("usual form")),
    ("https://%65xample.com/", Some("usual form")),
    ("https:///example.com/", Some("usual form")),
    ("https://////127.0.0.1/", Some("private")),
    ("https://EXAMPLE.com./", None),
    ("https://[2606:2800:21f:cb07:0:0:0:1]/", None),
    ("https://168.63.129.16/", Some("private")),
    ("https://localhost/", Some("private")),
    ("https://LOCALHOST./", Some("private")),
    ("https://a.localhost/", Some("private")),
    // The metadata services of clouds.
    ("https://169.254.169.254/latest/meta-data", Some("private")),
    ("https://[fd00:ec2::254]/", Some("private")),
    ("https://100.100.100.200/", Some("private")),
    ("https://10.1.2.3/", Some("private")),
    ("https://172.31.255.255/", Some("private")),
    ("https://192.168.0.1/", Some("private")),
    ("https://0/", Some("private")),
    ("https://255.255.255.255/", Some("private")),
    ("https://[fe80::1]/", Some("private")),
    ("https://[::]/", Some("private")),
];

#[test]
fn a_url_is_checked_as_it_is_written_down() {
    let allowed = Allowed::default();
    for (url, refused) in URLS {
        match (allowed.check(url), refused) {
            (Ok(()), None) => {}
            (Err(reason), Some(word)) => assert!(reason.contains(word), "{url:?}: {reason}"),
            (found, wanted) => panic!("{url:?} is {found:?}, not {wanted:?}"),
        }
    }
    let long = format!("https://hooks.example.com/{}", "a".repeat(2048));
    assert_eq!(allowed.check(&long), Err("must not be longer than 2048 bytes"));
}

#[test]
fn only_public_addresses_are_connected_to() {
    let public = [
        "1.1.1.1",
        "8.8.8.8",
        "100.63.255.255",
        "172.32.0.1",
        "192.0.1.1",
        "198.17.255.255",
        "223.255.255.255",
        "2606:4700::1111",
        "2a00:1450::1",
        "::ffff:8.8.8.8",
        "64:ff9b::808:808",
    ];
    let reserved = [
        "0.0.0.0",
        "0.1.2.3",
        "10.0.0.1",
        "100.64.0.1",
        "100.127.255.255",
        "127.0.0.1",
        "127.255.255.255",
        "169.254.0.1",
        "169.254.169.254",
        "172.16.0.1",
        "172.31.255.255",
        "192.0.0.1",
        "192.0.2.1",
        "192.88.99.1",
        "192.168.255.255",
        "198.18.0.1",
        "198.19.255.255",
        "198.51.100.1",
        "203.0.113.1",
        "224.0.0.1",
        "239.255.255.255",
        "240.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "::2",
        "::ffff:10.0.0.1",
        "::ffff:169.254.169.254",
        "64:ff9b::a00:1",
        "64:ff9b::7f00:1",
        "64:ff9b:1::1",
        "100::1",
        "2001::1",
        "2001:10::1",
        "2001:20::1",
        "2001:db8::1",
        "2002:7f00:1::",
        "2002:808:808::1",
        "3fff::1",
        "4000::1",
        "5f00::1",
        "fc00::1",
        "fd12:3456::1",
        "fe80::1",
        "fec0::1",
        "ff02::1",
    ];
    for address in public {
        assert!(is_public(address.parse().expect("an address")), "{address} is public");
    }
    for address in reserved {
        assert!(!is_public(address.parse().expect("an address")), "{address} is not public");
    }
}

/// What a name server answers is taken whole: one address that is not public refuses them all.
#[test]
fn a_mixed_answer_is_refused() {
    let allowed = Allowed::default();
    let addresses = |texts: &[&str]| texts.iter().map(|text| text.parse().expect("an address")).collect::<Vec<_>>();
    assert!(allowed.admit(addresses(&["8.8.8.8:443", "[2606:4700::1111]:443"])).is_ok());
    assert_eq!(allowed.admit(addresses(&["8.8.8.8:443", "10.0.0.1:443"])), Err(AttemptError::Blocked));
    assert_eq!(allowed.admit(addresses(&["[::ffff:127.0.0.1]:443"])), Err(AttemptError::Blocked));
    assert_eq!(allowed.admit(Vec::new()), Err(AttemptError::Dns));
    let private = Allowed(vec!["10.0.0.0/8".parse().expect("a subnet")]);
    assert!(private.admit(addresses(&["8.8.8.8:443", "10.0.0.1:443"])).is_ok());
    assert!(private.admit(addresses(&["[::ffff:10.0.0.1]:443"])).is_ok());
    assert_eq!(private.admit(addresses(&["192.168.0.1:443"])), Err(AttemptError::Blocked));
}
